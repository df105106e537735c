# Everything a person does with this repository. Each target does its own set-up.
.PHONY: demo test app sim bench long setup build
demo: ; @scripts/demo
test: ; @scripts/test
app: ; @scripts/app
sim: ; @scripts/sim
bench: ; @scripts/bench
long: ; @scripts/long
setup: ; @scripts/setup
build: ; @scripts/build
