"""Packaging of spacy_pel. Exact versions of a known good install are in constraints.txt."""

import os
import re
import runpy
import shutil
from pathlib import Path

from setuptools import find_packages, setup
from setuptools.command.build_py import build_py

HERE = Path(__file__).parent
PACKAGE = HERE / "spacy_pel"
# Run, not imported: the package needs what is only about to be installed.
VERSION = runpy.run_path(str(PACKAGE / "about.py"))["__version__"]
REGISTERED = runpy.run_path(str(PACKAGE / "registry.py"))["REGISTERED"]

SERVE = ["fastapi>=0.115", "fastapi-offline>=1.7", "uvicorn>=0.51", "prometheus-client>=0.20"]
MCP = ["mcp>=2.0,<3"]
# spaCy imports it whenever a pipeline is made: 4 seconds and 180 MB for those who do not use it. It also
# pins transformers below 4.53.3, which CVE-2026-4372 is reported for: without it, pip takes 5.
TRANSFORMERS = ["spacy-transformers>=1.3.8,<1.5"]
ONNX = ["onnxruntime>=1.19", "onnx>=1.16"]
TEST = [
    "pytest>=8.0",
    "hypothesis>=6.100",
    "pytest-timeout>=2.3",
    "pytest-xdist>=3.6",
    "httpx>=0.27",
    "markdown-it-py>=3.0",
    "fhir.resources>=8.0",
    "negspacy>=1.1",
    "pandas>=2.0",
    "ruff>=0.9",
    "mypy>=2.4",
    *SERVE,
    *MCP,
    *ONNX,
]
DOCS = ["mkdocs>=1.6", "mkdocs-material>=9.5", "mkdocstrings[python]>=0.29", "L2M4M>=1.0.4"]

# The address of the repository, to which the README's links lead on PyPI.
REPOSITORY = os.environ.get("REPOSITORY", "").rstrip("/")
URLS = {
    "Source": REPOSITORY,
    "Issues": f"{REPOSITORY}/issues",
    "Documentation": f"{REPOSITORY}/blob/main/docs/index.md",
    "Changes": f"{REPOSITORY}/blob/main/CHANGELOG.md",
}


class BuildWithProject(build_py):
    """Puts the configs and the demo into the wheel: spacy_pel/package/shipped_files.py finds them."""

    def run(self):
        super().run()
        if self.editable_mode:  # the clone has them
            return
        for part in ("configs", "assets/demo"):
            target = Path(self.build_lib, "spacy_pel", "project", part)
            shutil.rmtree(target, ignore_errors=True)  # of an earlier build
            shutil.copytree(HERE / "project" / part, target)


def readme():
    """The README, whose links and images lead into the repository, as PyPI shows no other files."""
    text = (HERE / "README.md").read_text(encoding="utf8")
    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?://|#)([^)]+)\)", _absolute, text)


def _absolute(link):
    image, text, path = link.groups()
    if not REPOSITORY:
        return "" if image else text
    return f"{image}[{text}]({REPOSITORY}/{'raw' if image else 'blob'}/main/{path})"


setup(
    name="spacy-pel",
    version=VERSION,
    description="Contextual, zero-shot entity linking for spaCy and scispaCy pipelines",
    long_description=readme(),
    long_description_content_type="text/markdown",
    author="The spacy_pel developers",
    url=REPOSITORY or None,
    project_urls=URLS if REPOSITORY else {},
    license="MIT",
    keywords="spacy scispacy entity-linking nlp biomedical umls mesh ontology",
    classifiers=[
        "Development Status :: 4 - Beta",
        "Intended Audience :: Developers",
        "Intended Audience :: Science/Research",
        "Operating System :: OS Independent",
        "Programming Language :: Python :: 3",
        *(f"Programming Language :: Python :: 3.{minor}" for minor in range(10, 15)),
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
        "Topic :: Scientific/Engineering :: Bio-Informatics",
        "Topic :: Text Processing :: Linguistic",
        "Typing :: Typed",
    ],
    cmdclass={"build_py": BuildWithProject},
    # With this line an editable install puts the clone itself on the path. Without it, a clone named
    # spacy_pel in the working folder hides the package: Python takes the clone for a namespace package.
    package_dir={"": "."},
    packages=find_packages(include=["spacy_pel", "spacy_pel.*"]),
    package_data={"spacy_pel": ["py.typed", "serve/page/*", "batch/page/*"]},
    python_requires=">=3.10,<3.15",
    install_requires=[
        "spacy>=3.8.2,<3.9",
        "thinc>=8.3.2,<8.4",
        "torch>=2.4",
        "transformers>=4.45,<6",
        "tokenizers>=0.20.1",
        "safetensors>=0.4.3",
        "numpy>=1.26",
        "scipy>=1.11",
        "scikit-learn>=1.3",
        "ahocorasick_rs>=1.0",
        "PyStemmer>=2.2",
        "abbreviation_extractor>=0.2",
        "rapidfuzz>=3.6",
        "duckdb>=1.2",
        "filelock>=3.24",
        "ijson>=3.2",
        "srsly>=2.4.8,<3",
        "typer>=0.12",
        "wasabi>=1.1.2,<2",
        "tqdm>=4.60",
    ],
    extras_require={
        "cpu": ["faiss-cpu>=1.12"],
        "gpu": ["faiss-gpu>=1.14.3"],
        "test": TEST,
        "project": ["weasel>=0.4.1", "build>=1.2", "matplotlib>=3.8"],
        "onnx": ONNX,
        "transformers": TRANSFORMERS,
        "ray": ["ray[data]>=2.10,<2.64"],  # 2.64 takes away how a limit on retries is given
        "serve": SERVE,
        "mcp": MCP,
        "docs": DOCS,
    },
    entry_points={
        # Also "python -m spacy pel", which imports spaCy and torch before it knows the command.
        "console_scripts": ["pel = spacy_pel.cli:pel"],
        **{
            group: [f"{name} = {target}" for name, target in entries.items()]
            for group, entries in REGISTERED.items()
        },
    },
)
