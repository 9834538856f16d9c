#!/usr/bin/env bash
# Runs `bytegauge ab` as the variables of action.yml say, and writes what a job shows. Exit code: that of the verdict.
set -uf
# A job may have several gates: each has its own session, its own files.
folder=$(mktemp -d "${RUNNER_TEMP:-/tmp}/bytegauge-gate.XXXXXX") || exit 5
store="$folder/results.db"
junit="$folder/gate.xml"
# Flags are split at spaces on purpose.
# shellcheck disable=SC2206
words=(--a "$A" --b "$B" --margin "$MARGIN" --time "$BUDGET" --until conclusive --max-time "$UNTIL_MAX" --quiet $FLAGS)
if [ -n "$LOAD" ]; then words+=(--load "$LOAD"); fi
bytegauge --store "$store" ab "${words[@]}" 2> "$folder/errors"
code=$?
cat "$folder/errors" >&2
verdict=error
# Other codes say that nothing was compared: of wrong usage there is no session either, of a side that failed there is one.
case $code in 0 | 1 | 3) verdict=$(bytegauge --store "$store" report --format json | grep -o '"verdict": *"[a-z]*"' | head -n 1 | cut -d '"' -f 4) ;; esac
summary=${GITHUB_STEP_SUMMARY:-/dev/null}
if [ "$code" != 2 ] && bytegauge --store "$store" report --format junit > "$junit"; [ -s "$junit" ]; then
  bytegauge --store "$store" report --format markdown >> "$summary"
else
  said=$(grep -m 1 -E '^(bytegauge|error):' "$folder/errors" || tail -n 1 "$folder/errors")
  said=$(printf '%s' "$said" | tr -d '[:cntrl:]')
  escaped=$(printf '%s' "$said" | sed "s/&/\&amp;/g; s/</\&lt;/g; s/>/\&gt;/g; s/\"/\&quot;/g")
  {
    echo '<?xml version="1.0" encoding="UTF-8"?>'
    echo '<testsuites><testsuite name="bytegauge ab" tests="1" failures="0" errors="1" skipped="0">'
    echo "<testcase classname=\"bytegauge ab\" name=\"b against a\"><error message=\"$escaped\"/></testcase>"
    echo '</testsuite></testsuites>'
  } > "$junit"
  printf 'Nothing was compared (exit code %s): %s\n' "$code" "$said" >> "$summary"
fi
{ echo "verdict=$verdict"; echo "junit=$junit"; } >> "${GITHUB_OUTPUT:-/dev/null}"
if [ "$code" = 3 ] && [ "$UNDECIDED" = pass ]; then
  echo "::warning::bytegauge could not decide: the job passes"
  exit 0
fi
exit "$code"
