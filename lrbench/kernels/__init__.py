"""Loops compiled by numba, where it is installed, for the CPU; nothing here is ever required.

A small model spends its time on reading and writing numbers between operations and on python,
not on arithmetic. A compiled loop does everything to some numbers while they are in registers.
Each has a loop of torch operations beside it, which it is tested against and which takes its place
without numba (`pip install 'lrbench-extrapolation[fast]'`) or under LRBENCH_COMPILED=0.

Two rules make results the same bits run after run: no loop uses threads, and none is compiled with
"fast math", so that sums are taken in the order in which they are written down.
"""
