#!/usr/bin/env bash
# Runs `bytegauge ab` as the variables of action.yml say, and writes what a job shows. Exit code: that of the verdict.
set -uf
store="${RUNNER_TEMP:-/tmp}/bytegauge-gate.db"
junit="${RUNNER_TEMP:-/tmp}/bytegauge-gate.xml"
# Flags are split at spaces on purpose.
# shellcheck disable=SC2206
words=(--a "$A" --b "$B" --margin "$MARGIN" --budget "$BUDGET" --until decided --until-max "$UNTIL_MAX" --strict --quiet $FLAGS)
if [ -n "$LOAD" ]; then words+=(--load "$LOAD"); fi
bytegauge --store "$store" ab "${words[@]}"
code=$?
# Codes beyond these say that nothing was compared.
case $code in 0 | 1 | 3) ;; *) exit "$code" ;; esac
bytegauge --store "$store" report --format junit > "$junit"
verdict=$(bytegauge --store "$store" report --format json | grep -o '"verdict": *"[a-z]*"' | head -n 1 | cut -d '"' -f 4)
{ echo "verdict=$verdict"; echo "junit=$junit"; } >> "${GITHUB_OUTPUT:-/dev/null}"
bytegauge --store "$store" report --format markdown >> "${GITHUB_STEP_SUMMARY:-/dev/null}"
if [ "$code" = 3 ] && [ "$UNDECIDED" = pass ]; then
  echo "::warning::bytegauge could not decide: the job passes"
  exit 0
fi
exit "$code"
