"""CEL as Kubernetes speaks it: compile once, evaluate within a budget, errors as data.

In: an expression, the names it may use, and plain JSON values for them. Out: a plain value, or an `Error` with the
words kube-apiserver would use. The interpreter is Google's C++ one; Kubernetes' function libraries stand on top.
It is imported at the first compilation, not before.

Reading order: `compiling` (expressions → programs), `evaluating` (programs → values, and how much work is too
much), `composition` (`variables.x`), then the function libraries in `functions/`.

Source: apiserver pkg/cel, pkg/cel/library, pkg/admission/plugin/cel (v1.36). Why this interpreter:
docs/decisions (CEL).
"""
