"""Package a pipeline as a wheel, and put its model card, licences and checksums beside it."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import typer

from spacy_pel.io.whole_files import sha256


def main(pipeline: Path, models: Path) -> None:
    """Write the wheel of PIPELINE and what belongs to it to the folder MODELS."""
    models.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as packages:
        command = [sys.executable, "-m", "spacy", "package", str(pipeline), packages]
        subprocess.run([*command, "--build", "wheel"], check=True)
        [built] = Path(packages).glob("*/dist/*.whl")
        name = built.name.split("-")[0]
        for older in models.glob(f"{name}-*.whl"):
            older.unlink()
        wheel = models / built.name
        with ZipFile(built) as loose, ZipFile(wheel, "w") as tight:  # saves a hundredth
            for entry in loose.infolist():
                tight.writestr(entry, loose.read(entry), ZIP_DEFLATED, 9)
    card, licences = models / f"{name}.md", models / f"{name}-LICENSES.md"
    shutil.copy(pipeline / "README.md", card)
    shutil.copy(pipeline / "LICENSES_SOURCES", licences)
    sums = [f"{sha256(file)}  {file.name}\n" for file in (wheel, card, licences)]
    (models / "SHA256SUMS").write_text("".join(sums))
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    typer.run(main)
