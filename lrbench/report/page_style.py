"""The style sheet of the HTML report: light, dark and on paper, with the reader's own fonts."""

STYLE = """\
:root {
  color-scheme: light dark;
  --ink: #1c1e21; --soft: #5a6068; --line: #d5d9de; --page: #ffffff; --band: #f5f7f9;
  --good: #00694b; --bad: #a33d00; --unsure: #5a6068;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ink: #e6e8ea; --soft: #a5acb4; --line: #3a4047; --page: #16181b; --band: #1f2226;
    --good: #55c9a0; --bad: #f0945a; --unsure: #a5acb4;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0; background: var(--page); color: var(--ink);
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif;
}
main { max-width: 80rem; margin: 0 auto; padding: 2rem 1.25rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.1rem; margin: 2.2rem 0 .6rem; overflow-wrap: anywhere; }
p { max-width: 46rem; }
.about { color: var(--soft); margin: 0; max-width: none; }
.how { border-left: 3px solid var(--line); padding-left: .9rem; }
.wide { overflow-x: auto; }
table {
  border-collapse: collapse; font-size: .84rem; font-variant-numeric: tabular-nums lining-nums;
  border-top: 2px solid var(--ink); border-bottom: 2px solid var(--ink);
}
th, td { padding: .3rem .7rem; text-align: left; vertical-align: baseline; white-space: nowrap; }
th:first-child, td:first-child { padding-left: .2rem; }
th { font-weight: 600; border-bottom: 1px solid var(--ink); vertical-align: bottom; }
.number { text-align: right; }
td.long { white-space: normal; min-width: 20rem; }
tr.first td { border-top: 1px solid var(--line); }
tbody tr:nth-child(even) { background: var(--band); }
.is-reproduced, .is-above { color: var(--good); font-weight: 600; }
.is-below, .is-not-learned, .is-at-chance, .is-failed { color: var(--bad); font-weight: 600; }
.is-inconclusive, .is-not-comparable { color: var(--unsure); }
.notes {
  color: var(--soft); font-size: .82rem; margin: .6rem 0 0; padding-left: 1.1rem;
  max-width: 60rem; overflow-wrap: anywhere;
}
.figures { display: flex; flex-wrap: wrap; gap: 1rem; align-items: flex-start; }
figure {
  margin: 0; padding: .7rem; background: #ffffff; color: #222222;
  border: 1px solid var(--line); border-radius: 4px; min-width: 0; max-width: 100%;
}
figure svg { display: block; width: 100%; height: auto; }
figcaption { font-size: .8rem; color: #5a6068; margin-top: .4rem; }
.problems h2 { color: var(--bad); }
@media print {
  @page { size: A4 landscape; margin: 12mm; }
  html { font-size: 12px; }
  :root {
    --ink: #000000; --soft: #333333; --line: #bbbbbb; --page: #ffffff; --band: #f3f3f3;
    --good: #004d37; --bad: #7a2e00; --unsure: #333333;
  }
  body { font-size: 9pt; }
  main { max-width: none; padding: 0; }
  .wide { overflow: visible; }
  table { font-size: 6.6pt; }
  th, td { padding: .15rem .35rem; }
  tr, figure { break-inside: avoid; }
  h2, h2 + p { break-after: avoid; }
  p { break-inside: avoid; }
  .figures { display: block; }
  figure { display: inline-block; vertical-align: top; margin: 0 2mm 3mm 0; }
}
"""
