# lrbench with everything `make demo` installs: docker build -t lrbench . && docker run lrbench
# Runs stay in a folder of yours: docker run -v "$PWD/outputs:/lrbench/outputs" lrbench lrbench train task=sum
FROM python:3.11-slim-bookworm
RUN apt-get update && apt-get install --yes --no-install-recommends git make g++ && rm -rf /var/lib/apt/lists/*
# More words for pip, such as the index that holds torch's CPU build.
ARG PIP_EXTRA=""
WORKDIR /lrbench
COPY . .
RUN make VENV=/venv PIP_EXTRA="$PIP_EXTRA" /venv/.installed
ENV PATH="/venv/bin:$PATH"
CMD ["make", "VENV=/venv", "demo"]
