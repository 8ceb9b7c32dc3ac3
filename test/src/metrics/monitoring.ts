import { readFileSync } from "node:fs";
import { join } from "node:path";
import { parse } from "yaml";
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

/** Returns the commands in the runbook's section on each alert. */
export function runbookSections(): ReadonlyMap<string, readonly string[]> {
  const text = readFileSync(join(repositoryFolder, "docs/operate/runbook.md"), "utf8");
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

/** Formats the samples of a process's answer, with the labels that Prometheus adds. */
export function samplesOf(text: string, target: { readonly job: string; readonly instance: string }): string[] {
  const own = `job="${target.job}",instance="${target.instance}"`;
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const [, name = "", , labels = "", value = ""] = /^(\w+)(\{(.*)\})? (\S+)$/.exec(line) ?? [];
    return `${name}{${[own, labels].filter(Boolean).join(",")}} ${value}`;
  });
}
