# make book      build the site        make serve     look at it
# make pdf       the book on paper, PAPER=A4 or Letter (needs Chromium)
# make test      every check           make refresh   execute and normalize the notebooks
# make address URL=https://github.com/you/your-fork
# make lock      newer pins            make clean     delete what was built
# make links     ask all outside links  make colab     every notebook with Colab's versions

PYTHON ?= python3
PORT ?= 8000
PAPER ?= A4
RUN := .venv/bin/python

# Other environments must not leak into this one.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV PIP_TARGET PIP_PREFIX PIP_USER
export PYTHONNOUSERSITE := 1
export JUPYTER_PREFER_ENV_PATH := 1

.DEFAULT_GOAL := book
.PHONY: environment site book serve pdf test links colab refresh address lock clean

environment:
	@command -v "$(PYTHON)" >/dev/null || { echo "There is no $(PYTHON) here. Name yours: make PYTHON=/path/to/python3 book"; exit 1; }
	@"$(PYTHON)" tools/environment.py

site: environment
	@$(RUN) tools/build.py

book: site
	@echo "The book is built. Open _build/html/index.html, or run: make serve"

serve: site
	@$(RUN) tools/serve.py --port $(PORT)

pdf: site
	@$(RUN) tools/pdf.py --paper $(PAPER)

test: site
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	OMP_NUM_THREADS=1 $(RUN) -m pytest -n 2 --dist loadfile tests
	$(RUN) -m pytest --nbval book/

links: site
	@$(RUN) tools/links.py

# With PYTHON, not with .venv: Colab's versions get an environment of their own.
colab:
	@"$(PYTHON)" tools/colab_run.py $(NOTEBOOKS)

refresh: environment
	$(RUN) tools/refresh.py

address: environment
	@$(RUN) tools/address.py "$(URL)"

lock: environment
	$(RUN) tools/lock.py

clean:
	rm -rf _build
