import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventually } from "@diskmesh/testkit";
import { expect } from "chai";
import { stringify } from "yaml";
import { alertsIn, monitoringFolder, samplesOf } from "./monitoring.js";

/** A process that Prometheus would be told to ask. */
export interface AlertTarget {
  readonly job: string;
  readonly port: number;
}

/** Scrapes are so far apart by the rules' clock, whatever the machine's load. */
const STEP_MINUTES = 2;
const PAUSE_MS = 100;
/** So much faster than ours is the rules' clock: what tells for how long something has waited is taken times that. */
export const FASTER = (STEP_MINUTES * 60_000) / PAUSE_MS;
const AGES = /_oldest_seconds\b/;
/** A process that stands still is waited for so long. */
const SCRAPE_TIMEOUT_MS = 1_000;
/** A rule that looks back for 15 minutes sees the same at several looks. */
const SCRAPES_BETWEEN_LOOKS = 4;
/** Whatever else this machine has to do may fire them. */
const OF_THIS_MACHINE = ["DiskmeshEventLoopLate", "DiskmeshCommitsSlow"];
const PATIENCE = { timeoutMs: 300_000 };

interface Told {
  readonly firing: readonly string[];
  /** Alerts whose condition holds, but not yet for long enough. */
  readonly pending: readonly string[];
}

/** Scrapes real processes again and again, and has Prometheus's own code evaluate the alert rules on what they told. */
export class AlertWatch {
  readonly #targets: readonly AlertTarget[];
  readonly #series = new Map<string, string[]>();
  /** Metrics that any rule asks for. */
  readonly #asked = new Set(
    alertsIn().flatMap(({ expr }) => expr.match(/\b(?:diskmesh|nodejs|rpc)_\w+|\bup\b/g) ?? []),
  );
  readonly #slowedJob: string | undefined;
  #scrapes = 0;

  /** `slowedJob` names the processes of which it is tested how late they are: else how busy this machine is would be. */
  constructor(targets: readonly AlertTarget[], slowedJob?: string) {
    this.#targets = targets;
    this.#slowedJob = slowedJob;
  }

  /** Why no rule can be evaluated here; undefined: they can. */
  static problem(): string | undefined {
    return spawnSync("promtool", ["--version"]).error ? "promtool is not on PATH" : undefined;
  }

  /** Goes on until exactly these fire, and nothing else is about to; `meanwhile` is done before each scrape. */
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
    const paused = new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    const told = (await Promise.all(this.#targets.map((target) => scraped(target)))).flat();
    this.#scrapes++;
    for (const sample of told) {
      const at = sample.lastIndexOf(" ");
      const [series, value] = [sample.slice(0, at), Number(sample.slice(at + 1))];
      const [name = ""] = series.split("{", 1);
      if (!this.#asked.has(name)) continue;
      const values = this.#series.get(series) ?? [];
      this.#series.set(series, values);
      // Not told before, or not any more for a while: no value is made up for that.
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
      // None was expected: those that there are, are told of.
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
