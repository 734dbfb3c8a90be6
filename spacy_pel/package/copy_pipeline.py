"""Copy a pipeline and its KB, to change the copy: ``pel copy``."""

import json
import shutil
from pathlib import Path

from thinc.api import Config

from ..errors import PelError
from ..io.whole_files import whole_folder
from ..kb.describe import copy_kb, copy_names
from ..kb.knowledge_base import KnowledgeBase
from ..kb.location import KB_FOLDER, KB_REFERENCE, pipeline_at, referred_kbs
from ..kb.store import KB_FILE


def copy_pipeline(pipeline: str, out: Path) -> KnowledgeBase:
    """Copy a pipeline and its KBs to a new, self-contained folder, and return the KB there.

    After an error or an interruption, there is no new folder.

    Args:
        pipeline: The folder of a pipeline, or the name of its package.
        out: The new folder.

    Raises:
        PelError: There is no such pipeline, it has no KB, a file of the KB is damaged, or ``out`` exists.
    """
    folder = pipeline_at(pipeline)
    if folder is None or not (folder / "config.cfg").is_file():
        remedy = "give the folder of a trained pipeline, or the name of an installed package"
        raise PelError(f"{pipeline}: not a pipeline", remedy)
    if out.exists():
        raise PelError(f"{out}: exists", "choose a new folder")
    kb_paths = dict(referred_kbs(folder))
    if not kb_paths:
        raise PelError(f"{pipeline}: has no knowledge base", "copy its folder as it is (cp -r)")
    homes: dict[Path, str] = {}  # the component in whose folder each KB is
    for component, path in kb_paths.items():
        homes.setdefault(path.resolve(), component)

    def kbs_inside(place: str, names: list[str]) -> set[str]:
        return {name for name in names if (Path(place) / name / KB_FILE).is_file()}

    with whole_folder(out) as new:
        shutil.copytree(folder, new, ignore=kbs_inside, dirs_exist_ok=True)
        config = Config().from_disk(new / "config.cfg", interpolate=False)
        for component, path in kb_paths.items():
            settings = config["components"][component]
            settings.update(dict.fromkeys({"kb", "path"}.intersection(settings)))
            inside = f"../{homes[path.resolve()]}/{KB_FOLDER}"
            reference = {"absolute": None, "relative": inside, "configured": None}
            (new / component / KB_REFERENCE).write_text(json.dumps(reference), encoding="utf8")
        config.to_disk(new / "config.cfg")
        for path, component in homes.items():
            with KnowledgeBase.open(path) as kb:
                copy_kb(kb, new / component / KB_FOLDER)
                copy_names(kb, new / component / KB_FOLDER)
    return KnowledgeBase.open(out / next(iter(homes.values())) / KB_FOLDER)
