# A server for a pipeline, on a CPU. Build it in a clone, and mount the pipeline:
#
#   docker build --tag spacy-pel .
#   docker run --publish 127.0.0.1:8000:8000 --volume "$PWD/project/output/pipeline:/pipeline:ro" spacy-pel
#
# For another command, name it: docker run --rm spacy-pel pel kb build --help
FROM python:3.12-slim AS wheel
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel /src

FROM python:3.12-slim
COPY --from=wheel /wheel /wheel
COPY constraints.txt /wheel/
RUN pip install --no-cache-dir "$(grep '^torch==' /wheel/constraints.txt)" --index-url https://download.pytorch.org/whl/cpu \
    && pip install --no-cache-dir --constraint /wheel/constraints.txt "$(ls /wheel/*.whl)[cpu,serve]" \
    && rm -r /wheel \
    && useradd --create-home pel
USER pel
WORKDIR /home/pel
EXPOSE 8000
CMD ["pel", "serve", "/pipeline", "--host", "0.0.0.0"]
