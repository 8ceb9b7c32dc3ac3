import type { ComponentType } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import { ask } from "./ask.js";
import type { Line } from "./charts.js";
import type { ActivitySample } from "./rows.js";
import { countText, sizeText } from "./text.js";

const MINUTE_MS = 60_000;
/** Time ranges of the charts. */
const SPANS: readonly (readonly [spanMs: number, text: string])[] = [
  [15 * MINUTE_MS, "15 minutes"],
  [60 * MINUTE_MS, "hour"],
  [360 * MINUTE_MS, "6 hours"],
  [1_440 * MINUTE_MS, "day"],
];
const KEPT_MS = 1_440 * MINUTE_MS;
const ASK_AGAIN_MS = 10_000;
/** Distances of the labels of bytes and of tasks, which make round numbers. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const TASK_STEPS = Array.from({ length: 7 }, (_, power) => 10 ** power).flatMap((ten) => [ten, 2 * ten, 5 * ten]);

type ChartType = ComponentType<Parameters<typeof import("./charts.js").default>[0]>;

/** Shows charts of I/O and tasks, in the chosen range of time. */
export function Activity() {
  const all = useSamples();
  const Chart = useChart();
  const [spanMs, setSpan] = useState(60 * MINUTE_MS);
  const isShown = ({ atMs }: ActivitySample): boolean => atMs > Date.now() - spanMs;
  const samples = useMemo(() => all.filter(isShown), [all, spanMs]);
  const timesMs = useMemo(() => samples.map(({ atMs }) => atMs), [samples]);
  if (Chart === undefined || all.length === 0) return null;
  const io = samples.at(-1)?.io;
  return (
    <div id="activity">
      <label class="span">
        Charts of the last{" "}
        <select value={spanMs} onInput={({ currentTarget }) => setSpan(Number(currentTarget.value))}>
          {SPANS.map(([value, text]) => (
            <option key={value} value={value}>
              {text}
            </option>
          ))}
        </select>
      </label>
      <div class="pair">
        <section aria-labelledby="io-title">
          <h2 id="io-title">
            I/O of all disks{" "}
            <span class="count">
              {io
                ? `${perSecond(io.readBytes)} read, ${perSecond(io.writtenBytes)} written, ${Math.round(io.reads + io.writes)} operations/s`
                : "not known now"}
            </span>
          </h2>
          <Chart
            label="I/O of all disks"
            timesMs={timesMs}
            spanMs={spanMs}
            {...IO_SCALE}
            lines={ioLines(
              samples.map((sample) => sample.io?.readBytes ?? null),
              samples.map((sample) => sample.io?.writtenBytes ?? null),
            )}
          />
        </section>
        <section aria-labelledby="task-chart-title">
          <h2 id="task-chart-title">
            Tasks <span class="count">{taskText(samples)}</span>
          </h2>
          <Chart
            label="Tasks"
            timesMs={timesMs}
            spanMs={spanMs}
            leastTop={5}
            steps={TASK_STEPS}
            valueText={(value) => String(Number(value.toFixed(1)))}
            lines={[
              { label: "running", colour: "--accent", values: samples.map(({ tasks }) => tasks.running) },
              {
                label: "queued",
                colour: "--warning",
                values: samples.map(({ tasks }) => tasks.queued),
                isDashed: true,
              },
              { label: "ended per minute", colour: "--online", values: perMinute(samples, "ended") },
              {
                label: "failed per minute",
                colour: "--unavailable",
                values: perMinute(samples, "failed"),
                isDashed: true,
              },
            ]}
          />
        </section>
      </div>
    </div>
  );
}

/** Scale of a chart of bytes per second. */
export const IO_SCALE = { leastTop: 1_024, steps: BYTE_STEPS, valueText: perSecond };

export function ioLines(read: readonly (number | null)[], written: readonly (number | null)[]): readonly Line[] {
  return [
    { label: "read", colour: "--accent", values: read },
    { label: "written", colour: "--suspected", values: written, isDashed: true },
  ];
}

export function perSecond(bytes: number): string {
  return `${sizeText(Math.round(bytes))}/s`;
}

/** Returns a count of each sample per minute of the time since the sample before; null for the first sample. */
function perMinute(samples: readonly ActivitySample[], count: "ended" | "failed"): readonly (number | null)[] {
  return samples.map(({ atMs, tasks }, index) => {
    const before = samples[index - 1];
    return before === undefined ? null : (tasks[count] * MINUTE_MS) / Math.max(1, atMs - before.atMs);
  });
}

function taskText(samples: readonly ActivitySample[]): string {
  const sum = (count: "ended" | "failed"): number => samples.reduce((all, { tasks }) => all + tasks[count], 0);
  return `${countText(sum("ended"), "task")} ended, ${sum("failed").toLocaleString("en")} failed`;
}

/** Returns the samples that the director has, and those that this page got before. */
function useSamples(): readonly ActivitySample[] {
  const [samples, setSamples] = useState<readonly ActivitySample[]>([]);
  useEffect(() => {
    const gone = new AbortController();
    let lastMs = 0;
    const load = async (): Promise<void> => {
      // A failure shows at the page's liveness.
      const more = await ask<ActivitySample[]>(`/page/activity?after=${lastMs}`, { signal: gone.signal }).catch(
        () => [],
      );
      if (gone.signal.aborted || more.length === 0) return;
      lastMs = more.at(-1)?.atMs ?? lastMs;
      setSamples((before) => [...before, ...more].filter(({ atMs }) => atMs > lastMs - KEPT_MS));
    };
    void load();
    const timer = setInterval(() => void load(), ASK_AGAIN_MS);
    return () => {
      gone.abort();
      clearInterval(timer);
    };
  }, []);
  return samples;
}

/** Loads the chart library after the first paint. */
export function useChart(): ChartType | undefined {
  const [loaded, setLoaded] = useState<{ readonly Chart: ChartType }>();
  useEffect(() => {
    import("./charts.js").then(
      ({ default: Chart }) => setLoaded({ Chart }),
      () => {},
    );
  }, []);
  return loaded?.Chart;
}
