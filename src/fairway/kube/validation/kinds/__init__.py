"""The rules of every built-in kind, as kube-apiserver applies them: one function for each of upstream's, in its order.

In: objects that have been decoded and defaulted. Out: `Faults`, in the order kube-apiserver lists them. What is checked
when an object is created, changed, or told its status is a matter of its kind (`registry`).

Reading order: `texts` (names, labels, addresses), `metadata`, `selectors`, `sameness` (what counts as unchanged),
`resources`; then pods (`pods`, `containers`, `env`, `probes`, `security`, `scheduling`, `volumes`, `projections`,
`claims`, `podupdates`) and the other kinds by what they are about.
"""
