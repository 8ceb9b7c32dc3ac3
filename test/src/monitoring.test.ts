import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { prometheusNames } from "@diskmesh/metrics";
import { skipWithout } from "@diskmesh/testkit";
import { expect } from "chai";
import { FAULT_ALERTS } from "./metrics/fault-alerts.js";
import { alertsIn, monitoringFolder, runbookSections } from "./metrics/monitoring.js";
import { METRICS } from "./metrics/page.js";

/** Label names by metric name. */
const labelsOf = new Map(
  [...METRICS.values()]
    .flat()
    .flatMap((one) =>
      prometheusNames(one).map((name) => [
        name,
        Object.keys(one.labels ?? {}).map((label) => label.replaceAll(".", "_")),
      ]),
    ),
);
const OWN_NAME = /\b(?:diskmesh|rpc|nodejs|process)_[a-z0-9_]+\b/g;
/** Labels that every sample has. */
const TARGET_LABELS = ["job", "instance", "le"];

function checkExpression(expression: string): void {
  // Removes quoted texts, which are values of labels.
  const bare = expression.replace(/"[^"]*"/g, '""');
  const names = (bare.match(OWN_NAME) ?? []).filter((name) => name !== "rpc_status_code");
  expect(names.length > 0 || bare.startsWith("up{"), expression).to.equal(true);
  for (const name of names) expect(labelsOf.has(name), `${name} in ${expression}`).to.equal(true);
  const known = [...TARGET_LABELS, ...names.flatMap((name) => labelsOf.get(name) ?? [])];
  const asked = [
    ...[...bare.matchAll(/\b(?:by|without|ignoring) \(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(", ")),
    ...[...bare.matchAll(/([a-z_]+)(?:=~|!=|=)""/g)].map(([, label = ""]) => label),
  ];
  for (const label of asked) expect(known, `${label} in ${expression}`).to.include(label);
}

describe("deploy/monitoring", () => {
  it("alerts use existing metrics and labels", () => {
    const alerts = alertsIn();
    expect(alerts).to.have.length.above(10);
    for (const { expr } of alerts) checkExpression(expr);
  });

  it("the dashboard uses existing metrics and labels", () => {
    const { panels } = JSON.parse(readFileSync(join(monitoringFolder, "dashboard.json"), "utf8"));
    const expressions = panels.flatMap(({ targets }: { targets: { expr: string }[] }) =>
      targets.map(({ expr }) => expr),
    );
    expect(expressions).to.have.length.above(20);
    for (const expression of expressions) checkExpression(expression);
  });

  it("each alert has its paragraph in the runbook, with commands, and each paragraph its alert", () => {
    const sections = runbookSections();
    expect([...sections.keys()]).to.deep.equal(alertsIn().map(({ alert }) => alert));
    for (const [alert, commands] of sections) expect(commands, alert).not.to.be.empty;
    for (const { alert, annotations } of alertsIn())
      expect(annotations.runbook_url).to.equal(`docs/operate/runbook.md#${alert.toLowerCase()}`);
  });

  it("each alert has a fault of a real mesh that fires it", () => {
    const fired = new Set<string>(Object.values(FAULT_ALERTS).flat());
    const alerts = alertsIn().map(({ alert }) => alert);
    expect(alerts.filter((alert) => !fired.has(alert))).to.deep.equal([]);
    expect(alerts).to.include.members([...fired]);
  });

  it("promtool confirms that each alert fires for its own condition, and for nothing else", function () {
    skipWithout(this, "promtool");
    const { status, stdout, stderr } = spawnSync("promtool", ["test", "rules", "alerts.test.yml"], {
      cwd: monitoringFolder,
      encoding: "utf8",
    });
    expect(status, `${stdout}${stderr}`).to.equal(0);
    const tested = readFileSync(join(monitoringFolder, "alerts.test.yml"), "utf8");
    for (const { alert } of alertsIn()) expect(tested).to.include(`- name: ${alert}\n`);
  });
});
