"""What does the API do with an authorized request? One module a verb, over one store.

Reading order: `reading` (get, list), `writing` (create, update, patch), `deleting`. Watches are in
`apiserver.watching`.
"""
