"""Serves a model file over both wire protocols until its standard input closes. Arguments: the file, a free port.

One thread: the build spins at its barriers, and with more threads than free cores it nearly stands still.
"""
import sys

import xllamacpp

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"]
params.port = int(sys.argv[2])
params.n_ctx = 8192
params.n_parallel = 2
params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
server = xllamacpp.Server(params)
print("READY", server.listening_address, flush=True)
sys.stdin.read()
