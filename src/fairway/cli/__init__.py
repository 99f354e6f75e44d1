"""The command line: what does a person type, and what do they read?

One file a command: parse, call one service, render. stdout is data, stderr is speech. Exit codes: 0 done,
1 the answer is no, 2 the input is wrong, 3 the world failed, 4 a bug of ours.

`main` lists the commands and turns errors into sentences; a command's module is imported when it is called,
so that `fairway --help` answers at once.
"""
