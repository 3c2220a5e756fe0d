"""The style sheet of the demo's page: system fonts, light and dark."""

STYLE = """
:root { color-scheme: light dark; --paper: #fff; --card: #f5f6f8; --ink: #1f2937; --faint: #6b7280;
  --line: #e2e5ea; --sakura: #d94a8c; --device: #64748b; --network: #3b82f6; }
@media (prefers-color-scheme: dark) { :root { --paper: #14161a; --card: #1f2329; --ink: #e7e9ee;
  --faint: #9aa3b2; --line: #333944; --sakura: #f08db8; --device: #94a3b8; --network: #7fb0ff; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
main { max-width: 1180px; margin: 0 auto; padding: 32px 20px 64px; }
h1 { margin: 0; font-size: 30px; } h2 { margin: 44px 0 4px; font-size: 22px; }
h3 { margin: 0 0 6px; font-size: 15px; }
header > p { margin: 8px 0 0; font-size: 18px; max-width: 60em; }
section > p { margin: 0 0 12px; color: var(--faint); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 14px;
  margin: 24px 0 0; }
.card { background: var(--card); border-radius: 12px; padding: 16px 18px; }
.card b { display: block; font-size: 28px; color: var(--sakura); }
.card span { color: var(--faint); font-size: 14px; }
.bars { margin: 14px 0; }
.bar { display: grid; grid-template-columns: 200px 1fr 80px; align-items: center; gap: 10px;
  margin: 6px 0; font-size: 15px; }
.bar i { height: 18px; min-width: 2px; border-radius: 4px; background: var(--device); }
.bar.sakura i { background: var(--sakura); } .bar.uncompressed i { background: var(--network); }
.bar b { font-variant-numeric: tabular-nums; font-weight: 600; text-align: right; }
.bar span { white-space: nowrap; }
@media (max-width: 640px) { .bar { grid-template-columns: 1fr 80px; gap: 0 10px; }
  .bar span { grid-column: 1 / -1; } }
img { display: block; width: 100%; height: auto; border-radius: 10px; margin: 12px 0;
  background: #fff; border: 1px solid var(--line); }
details { margin: 8px 0; } summary { cursor: pointer; color: var(--faint); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; width: 100%; font-size: 14px; white-space: nowrap;
  font-variant-numeric: tabular-nums; }
th, td { padding: 7px 10px; text-align: right; border-bottom: 1px solid var(--line); }
th { color: var(--faint); font-weight: 600; }
th:nth-child(-n+2), td:nth-child(-n+2) { text-align: left; }
p.note { margin-top: 10px; font-size: 14px; color: var(--faint); }
.details { display: grid; grid-template-columns: repeat(auto-fit, minmax(240px, 1fr)); gap: 14px;
  margin-top: 12px; }
.details > div { background: var(--card); border-radius: 12px; padding: 14px 18px; }
dl { display: grid; grid-template-columns: auto 1fr; gap: 2px 12px; margin: 0; font-size: 14px; }
dt { color: var(--faint); } dd { margin: 0; overflow-wrap: anywhere; }
"""
