"""Which fields does a kind have, and what is wrong with a value that should follow a schema?

Built-in kinds: the OpenAPI document of Kubernetes 1.36, read on first use from a package that ships it. Custom
kinds: the structural schema of their CustomResourceDefinition. Both become the same `Schema` tree.

    schema_for(api_version, kind) -> Schema | None             built-in kinds; None: not built in
    custom_schema(open_api_v3: dict) -> Schema                 a CRD version's `schema.openAPIV3Schema`
    tree_of(version: dict) -> Schema | None                    the same of an entry of `spec.versions`, built once
    misfits(obj, schema) -> list[Problem]                      built-in kinds: all of that, for the author of a file
    decode_error(obj, schema) -> str | None                    a wrong type, in the words of Go's decoder
    unknown_fields(obj, schema) -> list[str]                   each `unknown field "spec.containers[0].resorces"`
    unknown_paths(obj, schema) -> list[Path]                   where they stand
    duplicate_fields(data: bytes) -> list[str]                 each `duplicate field "spec.x"` of a JSON text
    strict_error(found: list[str]) -> str                      `strict decoding error: …, …`
    prune(obj, schema) -> Obj                                  custom objects: unspecified fields left out
    fill_defaults(obj, schema) -> Obj                          custom objects: `default:` values filled in
    has_types_of(obj, schema) -> bool                          custom objects: could Go's decoder read it?
    validate_custom(obj, schema, old=None) -> list[Problem]    custom objects: what apiextensions refuses (CEL apart)
    validate_definition(crd, old=None) -> list[Problem]        a CustomResourceDefinition itself
    default_definition(crd) -> Obj                             singular, listKind, conversion filled in
    established(crd, now) -> Obj                               its status: names accepted, established, versions stored

Objects are never mutated; functions that change one return a new one sharing the rest.

Reading order: `document` (the OpenAPI document), `node` (the tree), `structural` (from a CRD), `misfits`, `decoding`,
`shaping` (pruning, defaulting), `values` (validation of values; `formats` the named ones), `definitions`
and `structure` (validation of CRDs and their schemas).
"""
