# A server on a CPU, with the package for MeSH. Build and run it in a clone:
#
#   docker build --tag spacy-pel .
#   docker run --publish 127.0.0.1:8000:8000 spacy-pel
#
# For a pipeline of yours, or another command, mount and name it:
#
#   docker run --publish 127.0.0.1:8000:8000 --volume "$PWD/project/output/pipeline:/pipeline:ro" spacy-pel \
#       pel serve /pipeline --host 0.0.0.0
FROM python:3.12-slim AS wheel
COPY . /src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheel /src

FROM python:3.12-slim
COPY --from=wheel /wheel /wheel
COPY releases/*.whl constraints.txt /wheel/
# Three constraints are there for spacy-transformers, which the image does without.
RUN cd /wheel \
    && pip install --no-cache-dir "$(grep '^torch==' constraints.txt)" --index-url https://download.pytorch.org/whl/cpu \
    && grep -vE '^(transformers|tokenizers|huggingface_hub)==' constraints.txt > kept.txt \
    && pip install --no-cache-dir --constraint kept.txt "$(ls /wheel/spacy_pel-*.whl)[cpu,serve]" \
    && pip install --no-cache-dir --no-deps en_pel_mesh_sm-*.whl \
    && rm -r /wheel \
    && useradd --create-home pel
USER pel
WORKDIR /home/pel
EXPOSE 8000
CMD ["pel", "serve", "en_pel_mesh_sm", "--host", "0.0.0.0"]
