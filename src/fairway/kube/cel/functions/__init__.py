"""Kubernetes' CEL function libraries, as tables of overloads.

A value that CEL has no type for (a quantity, an IP address, an authorizer) travels as a map with one key that names
its kind: the interpreter cannot carry foreign types through Python. `==` then compares canonical forms.

Source: apiserver pkg/cel/environment/base.go and pkg/cel/library (v1.36); cel-go ext (strings, sets, lists).
"""
