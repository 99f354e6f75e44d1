"""What does a body in protobuf say? kubectl's `create` and Go's typed clients write nothing else since 1.32.

In: `application/vnd.kubernetes.protobuf` bytes of a built-in kind. Out: the object as its JSON would have it. Only
requests are read; answers are always JSON, which every client that writes protobuf also accepts.

`fields.txt` has the field numbers of the wire format, one message a line: names in order of their numbers, `=N`
where the count jumps, `?` where absent and zero differ (a pointer in Go), `@` where JSON has the fields of an
embedded message in its parent. Types come from the kind's schema. Reading order: `numbers`, `reading`.
"""
