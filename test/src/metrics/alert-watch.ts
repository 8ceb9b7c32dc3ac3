import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { stringify } from "yaml";
import { alertsIn, monitoringFolder, samplesOf } from "./monitoring.js";

/** A process that Prometheus would scrape. */
export interface AlertTarget {
  readonly job: string;
  readonly port: number;
}

/** Time between scrapes on the rules' clock, whatever the machine's load. */
const STEP_MINUTES = 2;
const PAUSE_MS = 100;
/** Speed of the rules' clock relative to the real one. Metrics of waiting times are multiplied by it. */
export const FASTER = (STEP_MINUTES * 60_000) / PAUSE_MS;
const AGES = /_oldest_seconds\b/;
/** Timeout in ms of a scrape of a stopped process. */
const SCRAPE_TIMEOUT_MS = 1_000;
/** Scrapes between evaluations. A rule over 15 minutes sees the same data in several evaluations. */
const SCRAPES_BETWEEN_LOOKS = 8;
/** Alerts that other load on this machine may cause. */
const OF_THIS_MACHINE = ["DiskmeshEventLoopLate", "DiskmeshCommitsSlow"];
const PATIENCE = { timeoutMs: 300_000 };

interface Told {
  readonly firing: readonly string[];
  /** Alerts whose condition holds, but not yet for the required time. */
  readonly pending: readonly string[];
}

/** Scrapes real processes repeatedly, and evaluates the alert rules on the samples with promtool. */
export class AlertWatch {
  readonly #targets: readonly AlertTarget[];
  readonly #series = new Map<string, string[]>();
  /** Metrics that any rule uses. */
  readonly #asked = new Set(
    alertsIn().flatMap(({ expr }) => expr.match(/\b(?:diskmesh|nodejs|rpc)_\w+|\bup\b/g) ?? []),
  );
  readonly #slowedJob: string | undefined;
  #scrapes = 0;

  /**
   * `slowedJob` names the processes whose delays are checked; those of other processes would depend on the machine's
   * load.
   */
  constructor(targets: readonly AlertTarget[], slowedJob?: string) {
    this.#targets = targets;
    this.#slowedJob = slowedJob;
  }

  /** Waits until exactly these alerts fire and no other is pending; runs `meanwhile` before each scrape. */
  async fires(expected: readonly string[], meanwhile: () => Promise<unknown> = async () => {}): Promise<void> {
    await eventually(async () => {
      for (let scrape = 0; scrape < SCRAPES_BETWEEN_LOOKS; scrape++) {
        await meanwhile();
        await this.#scrape();
      }
      const [told, wanted] = [this.#told(), { firing: [...expected].sort(), pending: [] }];
      expect(told, `${JSON.stringify(told)}, not ${JSON.stringify(wanted)}`).to.deep.equal(wanted);
    }, PATIENCE);
  }

  async #scrape(): Promise<void> {
    const paused = sleep(PAUSE_MS);
    const told = (await Promise.all(this.#targets.map((target) => scraped(target)))).flat();
    this.#scrapes++;
    for (const sample of told) {
      const at = sample.lastIndexOf(" ");
      const [series, value] = [sample.slice(0, at), Number(sample.slice(at + 1))];
      const [name = ""] = series.split("{", 1);
      if (!this.#asked.has(name)) continue;
      const values = this.#series.get(series) ?? [];
      this.#series.set(series, values);
      // Writes `_`, promtool's sign for a missing sample.
      while (values.length < this.#scrapes - 1) values.push("_");
      values.push(String(AGES.test(name) ? value * FASTER : value));
    }
    await paused;
  }

  #told(): Told {
    const folder = mkdtempSync(join(tmpdir(), "dm-alerts-"));
    try {
      const inputs = [...this.#series].map(([series, values]) => ({ series, values: values.join(" ") }));
      const eval_time = `${(this.#scrapes - 1) * STEP_MINUTES}m`;
      const states = { expr: "count by (alertname, alertstate, job) (ALERTS)", eval_time, exp_samples: [] };
      const tests = [{ interval: `${STEP_MINUTES}m`, input_series: inputs, promql_expr_test: [states] }];
      const file = join(folder, "test.yml");
      const rule_files = [join(monitoringFolder, "alerts.yml")];
      writeFileSync(file, stringify({ rule_files, evaluation_interval: "1m", tests }));
      const { stdout, stderr } = spawnSync("promtool", ["test", "rules", file], { encoding: "utf8" });
      const said = `${stdout}${stderr}`;
      if (!/SUCCESS|FAILED/.test(said) || /parse|unmarshal/.test(said)) throw new Error(said);
      // promtool prints all pending and firing alerts, because its input expects none.
      const told = [...said.matchAll(/alertname="(\w+)", alertstate="(\w+)"(?:, job="([^"]*)")?/g)].filter(
        ([, name = "", , job]) => !OF_THIS_MACHINE.includes(name) || job === this.#slowedJob,
      );
      const inState = (state: string) =>
        [...new Set(told.flatMap(([, name = "", found]) => (found === state ? [name] : [])))].sort();
      return { firing: inState("firing"), pending: inState("pending") };
    } finally {
      rmSync(folder, { recursive: true });
    }
  }
}

async function scraped({ job, port }: AlertTarget): Promise<string[]> {
  const target = { job, instance: `127.0.0.1:${port}` };
  const up = (value: number) => `up{job="${job}",instance="${target.instance}"} ${value}`;
  try {
    const answer = await fetch(`http://127.0.0.1:${port}/metrics`, { signal: AbortSignal.timeout(SCRAPE_TIMEOUT_MS) });
    return [up(1), ...samplesOf(await answer.text(), target)];
  } catch {
    return [up(0)];
  }
}
