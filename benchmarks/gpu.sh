#!/bin/bash
# Check and time the package on a GPU beside the CPU of the same machine, in 8 minutes, without a network:
#
#     benchmarks/gpu.sh PIPELINE TEXTS OUT
#
# PIPELINE is a folder or an installed package with its KB in it, TEXTS a file of one text a line. The
# environment has CuPy, torch for CUDA, and faiss-gpu. OUT gets a log of each step, and a table is printed
# last. A step that fails does not stop the others.
set -u
pipeline=$1 texts=$2 out=$3
mkdir -p "$out"
declare -a rows=()

step() { # NAME COMMAND...: run it within two minutes, and note its seconds or that it failed
    local name=$1 began=$SECONDS
    shift
    if timeout 120 "$@" >"$out/$name.log" 2>&1; then
        rows+=("| $name | ok | $((SECONDS - began)) |")
    else
        rows+=("| $name | FAILED: $(tail -n 1 "$out/$name.log" | cut -c1-80) | $((SECONDS - began)) |")
    fi
}

for device in -1 0; do
    step "link_$device" python -m spacy pel link "$pipeline" "$texts" --output "$out/links_$device.jsonl" \
        --gpu-id "$device"
done
step same_ids python - "$out" <<'PYTHON'
import json, pathlib, sys

def ids(name):
    lines = pathlib.Path(sys.argv[1], name).read_text("utf8").splitlines()
    return [[mention.get("id") for mention in json.loads(line)["mentions"]] for line in lines]

cpu, gpu = ids("links_-1.jsonl"), ids("links_0.jsonl")
assert len(cpu) == len(gpu)
pairs = [(a, b) for x, y in zip(cpu, gpu) for a, b in zip(x, y)]
differ = sum(a != b for a, b in pairs)
print(f"{differ} of {len(pairs)} ids differ")
assert list(map(len, cpu)) == list(map(len, gpu)) and differ <= 0.002 * len(pairs)
PYTHON
step train_gpu python -m spacy train project/configs/demo.cfg --gpu-id 0 --output "$out/trained" \
    --training.max_steps 20 --training.eval_frequency 20
printf '| step | result | seconds |\n|---|---|---:|\n'
printf '%s\n' "${rows[@]}"
