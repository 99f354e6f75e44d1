"""How does an object look after this write, and who owns which of its fields?

    patched(obj, patch, content_type, schema) -> Obj           JSON patch, merge patch, strategic merge patch
    track_update(live, new, writer, now_us, schema) -> Obj     `new` with managedFields after create/update/patch
    apply(live, applied, writer, now_us, schema, force=False) -> Obj   server-side apply; live None: a create
    manager_of(field_manager, user_agent) -> str               who a request without fieldManager is
    Writer(manager, api_version, subresource="", ignores=None)

`live` and `new` are whole objects, `schema` is `fairway.kube.schema`'s (None: a kind without one; deduced). What
they raise is `ApiError`: 400 bad patch, 409 Conflict with its causes, 415 unknown form, 422 invalid patch.
A caller that gets an object equal to `live` apart from `managedFields` times stores nothing.

Reading order: `forms` (the three plain patches), `fieldset` (sets of fields and their FieldsV1 form), `walk` (which
fields does an object have; `gotypes`: which does Go always write),
`managed` (the entries), `tracking` (update and create), `applying` (server-side apply).
"""
