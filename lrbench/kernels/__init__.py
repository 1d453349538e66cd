"""Operations that several models use, each its plain way and its fast way in one file.

A small model spends its time on reading and writing numbers between operations and on python,
not on arithmetic. A loop compiled by numba does everything to some numbers while they are in
registers; torch's operations beside it are what it is tested against, and take its place without
numba (`pip install 'lrbench-extrapolation[fast]'`) or under LRBENCH_COMPILED=0. Operations of one
kind of scan, mixer or encoder lie with it (`lrbench/scan`, `lrbench/mixers`, `lrbench/encoders`).

`choice.py` says which way is taken; `compiler.py`, `lanes.py` and `elementary.py` are what loops
are made of; `closed_form.py` gives a function its own backward.

Two rules make results the same bits run after run: no loop uses threads, and none is compiled with
"fast math", so that sums are taken in the order in which they are written down.
"""
