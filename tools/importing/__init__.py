"""Where do Fairway's facts about other projects' APIs come from? From pinned sources, by this program.

    python -m tools.importing --from CLONES             write every data file anew
    python -m tools.importing --from CLONES kueue keda  only these components; the others stay as they are
    python -m tools.importing --from CLONES --check     write nothing; exit 1 where a file would change

`CLONES` holds git clones as `owner/name`; `pins.toml` says which, at which revision, and which files to read.
What is taken are facts: names, types, enums, defaults, list keys, rules. Descriptions stay where they are.
docs/upgrading.md tells how a new release comes in. Nothing here is shipped.

Reading order: `__main__`, `pins`, `definitions` (CustomResourceDefinitions), `nodes` (how schemas are kept).
"""
