"""A copy of a pipeline with its KB, which may be changed: ``pel copy``."""

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
    """Copy a pipeline, by its folder or the name of its package, to a new folder; returns the KB there.

    The KB is copied along, also from another folder. Nothing in the copy points out of it. After an error
    or an interruption there is no new folder.

    PelError if there is no such pipeline, it has no KB, a file of the KB is damaged, or ``out`` exists.
    """
    folder = pipeline_at(pipeline)
    if folder is None or not (folder / "config.cfg").is_file():
        remedy = "give the folder of a trained one, or the name of an installed package"
        raise PelError(f"{pipeline}: no pipeline is there", remedy)
    if out.exists():
        raise PelError(f"{out}: exists", "choose a new folder")
    kbs = dict(referred_kbs(folder))
    if not kbs:
        raise PelError(f"{pipeline}: has no knowledge base", "copy its folder as it is (cp -r)")
    homes: dict[Path, str] = {}  # the component whose folder gets each KB
    for component, kb in kbs.items():
        homes.setdefault(kb.resolve(), component)

    def kbs_inside(place: str, names: list[str]) -> set[str]:
        return {name for name in names if (Path(place) / name / KB_FILE).is_file()}

    with whole_folder(out) as new:
        shutil.copytree(folder, new, ignore=kbs_inside, dirs_exist_ok=True)
        config = Config().from_disk(new / "config.cfg", interpolate=False)
        for component, kb in kbs.items():
            settings = config["components"][component]
            settings.update(dict.fromkeys({"kb", "path"}.intersection(settings)))
            inside = f"../{homes[kb.resolve()]}/{KB_FOLDER}"
            reference = {"absolute": None, "relative": inside, "configured": None}
            (new / component / KB_REFERENCE).write_text(json.dumps(reference), encoding="utf8")
        config.to_disk(new / "config.cfg")
        for path, component in homes.items():
            with KnowledgeBase.open(path) as kb:
                copy_kb(kb, new / component / KB_FOLDER)
                copy_names(kb, new / component / KB_FOLDER)
    return KnowledgeBase.open(out / next(iter(homes.values())) / KB_FOLDER)
