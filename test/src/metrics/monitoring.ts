import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parse, stringify } from "yaml";
import { repositoryFolder } from "../repository-folder.js";

export const monitoringFolder = join(repositoryFolder, "deploy/monitoring");

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly annotations: Readonly<Record<string, string>>;
}

export function alertsIn(): readonly Alert[] {
  const { groups } = parse(readFileSync(join(monitoringFolder, "alerts.yml"), "utf8")) as {
    groups: { rules: Alert[] }[];
  };
  return groups.flatMap(({ rules }) => rules);
}

/** The commands of each alert's paragraph in the runbook. */
export function runbookSections(): ReadonlyMap<string, readonly string[]> {
  const text = readFileSync(join(repositoryFolder, "docs/runbook.md"), "utf8");
  return new Map(
    text
      .split(/^## /m)
      .slice(1)
      .map((section) => {
        const [name = ""] = section.split("\n", 1);
        const blocks = [...section.matchAll(/```sh\n(.*?)```/gs)].flatMap(([, block = ""]) => block.trim().split("\n"));
        return [name, blocks];
      }),
  );
}

/** A line of what a process answered Prometheus, with the labels that Prometheus adds. */
export function samplesOf(text: string, target: { readonly job: string; readonly instance: string }): string[] {
  const own = `job="${target.job}",instance="${target.instance}"`;
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const [, name = "", , labels = "", value = ""] = /^(\w+)(\{(.*)\})? (\S+)$/.exec(line) ?? [];
    return `${name}{${[own, labels].filter(Boolean).join(",")}} ${value}`;
  });
}

/** The alerts that fire when these samples stay as they are for an hour; promtool evaluates the rules. */
export function alertsOn(samples: readonly string[]): string[] {
  const folder = mkdtempSync(join(tmpdir(), "dm-alerts-"));
  try {
    const alerts = alertsIn().map(({ alert }) => alert);
    const series = samples.map((sample) => {
      const at = sample.lastIndexOf(" ");
      return { series: sample.slice(0, at), values: `${Number(sample.slice(at + 1))}+0x120` };
    });
    const rules = alerts.map((alertname) => ({ eval_time: "2h", alertname, exp_alerts: [] }));
    const tests = [{ interval: "1m", input_series: series, alert_rule_test: rules }];
    const file = join(folder, "test.yml");
    writeFileSync(file, stringify({ rule_files: [join(monitoringFolder, "alerts.yml")], tests }));
    const { stdout, stderr } = spawnSync("promtool", ["test", "rules", file], { encoding: "utf8" });
    const said = `${stdout}${stderr}`;
    if (!/SUCCESS|FAILED/.test(said) || /parse|unmarshal/.test(said)) throw new Error(said);
    // None was expected: those that are told of fire.
    return alerts.filter((alert) => said.includes(`alertname: ${alert},`)).sort();
  } finally {
    rmSync(folder, { recursive: true });
  }
}
