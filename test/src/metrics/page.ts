import { dispatcherMetrics } from "@diskmesh/cpi-dispatcher/metrics";
import { directorMetrics } from "@diskmesh/director/metrics";
import { agentMetrics, deviceMetrics, nbdMetrics } from "@diskmesh/disk-agent/metrics";
import { registryMetrics } from "@diskmesh/disk-registry/metrics";
import { driverMetrics } from "@diskmesh/driver/host";
import { mbusMetrics } from "@diskmesh/mbus";
import { type MetricDeclaration, prometheusNames } from "@diskmesh/metrics";
import { rpcMetrics } from "@diskmesh/rpc";
import { processMetrics } from "@diskmesh/service";
import { tabletMetrics } from "@diskmesh/tablet-admin";
import { FASTER } from "./alert-watch.js";
import { FAULT_ALERTS } from "./fault-alerts.js";
import { alertsIn } from "./monitoring.js";

/** Metrics of each service. */
export const METRICS: ReadonlyMap<string, readonly MetricDeclaration[]> = new Map([
  ["Every process", [...Object.values(processMetrics), ...Object.values(rpcMetrics)]],
  ["The leader of a tablet: director and disk-registry", Object.values(tabletMetrics)],
  ["disk-registry, while it leads", Object.values(registryMetrics)],
  ["director, while it leads", [...Object.values(directorMetrics), ...Object.values(mbusMetrics)]],
  ["cpi-dispatcher", Object.values(dispatcherMetrics)],
  ["director, while it leads, and disk-agent, with drivers", Object.values(driverMetrics)],
  ["disk-agent", [nbdMetrics, deviceMetrics, agentMetrics].flatMap((each): MetricDeclaration[] => Object.values(each))],
]);

const ALERTS_HEAD = `## Alerts

promtool runs every rule of \`deploy/monitoring/alerts.yml\` on synthetic series. Tests also make faults on a mesh of real
processes, scrape all of them, and have Prometheus's code evaluate the rules on the samples, by a clock that is
${FASTER.toLocaleString("en")} times as fast: exactly these alerts fire, and no other is about to.
`;

const HEAD = `# Metrics

Made from the code by \`npm run metrics\`; do not edit it. [monitoring](../operate/monitoring.md) says how to read them, and
\`deploy/monitoring/\` has alert rules, their runbook and a dashboard.

Names are Prometheus's. The name in brackets is OpenTelemetry's, which an OTLP receiver gets. Histograms have \`_bucket\`, \`_sum\`
and \`_count\`. No label takes free text: its values are listed, or bounded as stated. An instrument keeps 2,000 combinations of
label values at most.
`;

/** Returns the text of docs/reference/metrics.md. */
export function metricsPage(): string {
  return [...sections(), alertsSection()].join("\n");
}

/** Returns the section that names, for each alert, the test in which it fires. */
function alertsSection(): string {
  const rows = alertsIn().map(({ alert }) => {
    const faults = Object.entries(FAULT_ALERTS).filter(([, alerts]) => alerts.some((each) => each === alert));
    return `- \`${alert}\`: ${faults.map(([fault]) => fault).join("; ")}`;
  });
  const quiet = Object.entries(FAULT_ALERTS).filter(([, alerts]) => alerts.length === 0);
  return `${ALERTS_HEAD}
${rows.join("\n")}

On these nothing fires, since nothing is broken or nobody waits for it yet; page and \`why\` tell them: ${quiet.map(([fault]) => fault).join("; ")}.
`;
}

function sections(): string[] {
  const parts = [...METRICS].map(
    ([who, metrics]) => `## ${who}\n\n${metrics.map((declaration) => entryOf(declaration)).join("\n")}`,
  );
  return [HEAD, ...parts];
}

function entryOf(declaration: MetricDeclaration): string {
  const { kind, name, unit, description, labels = {} } = declaration;
  const [first = ""] = prometheusNames(declaration);
  const shown = kind === "histogram" ? first.replace(/_bucket$/, "") : first;
  const lines = [
    `- **\`${shown}\`** (\`${name}\`, ${kind === "observed counter" ? "counter" : kind}, unit \`${unit}\`)`,
  ];
  lines.push(`  ${description}`);
  for (const [label, bound] of Object.entries(labels)) {
    const values = typeof bound === "string" ? bound : (bound as readonly string[]).join(", ");
    lines.push(`  - \`${label.replaceAll(".", "_")}\`: ${values}`);
  }
  return `${lines.join("\n")}\n`;
}
