import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { ask } from "./ask.js";
import type { Line } from "./charts.js";
import type { ActivitySample } from "./rows.js";
import { countText, sizeText } from "./text.js";

const SPAN_MS = 3_600_000;
const ASK_AGAIN_MS = 10_000;
const MS_PER_MINUTE = 60_000;
/** Distances of the labels of bytes and of tasks, which make round numbers. */
const BYTE_STEPS = Array.from({ length: 50 }, (_, power) => 2 ** power);
const TASK_STEPS = Array.from({ length: 7 }, (_, power) => 10 ** power).flatMap((ten) => [ten, 2 * ten, 5 * ten]);

type ChartType = ComponentType<Parameters<typeof import("./charts.js").default>[0]>;

/** Shows charts of I/O and tasks of the last hour. */
export function Activity() {
  const samples = useSamples();
  const Chart = useChart();
  if (Chart === undefined || samples.length === 0) return null;
  const timesMs = samples.map(({ atMs }) => atMs);
  const last = samples.at(-1);
  const io = last?.io;
  const line = (
    label: string,
    colour: string,
    read: (sample: ActivitySample) => number | null | undefined,
    isDashed = false,
  ): Line => ({
    label,
    colour,
    values: samples.map((sample) => read(sample) ?? null),
    ...(isDashed && { isDashed: true as const }),
  });
  return (
    <div class="pair" id="activity">
      <section aria-labelledby="io-title">
        <h2 id="io-title">
          I/O of all disks{" "}
          <span class="count">
            {io
              ? `${perSecond(io.readBytes)} read, ${perSecond(io.writtenBytes)} written, ${Math.round(io.reads + io.writes)} operations/s${uncountedText(io)}`
              : "not known now"}
          </span>
        </h2>
        <Chart
          timesMs={timesMs}
          spanMs={SPAN_MS}
          leastTop={1_024}
          steps={BYTE_STEPS}
          valueText={perSecond}
          lines={[
            line("read", "--accent", (sample) => sample.io?.readBytes),
            line("written", "--suspected", (sample) => sample.io?.writtenBytes, true),
          ]}
        />
      </section>
      <section aria-labelledby="task-chart-title">
        <h2 id="task-chart-title">
          Tasks in the last hour <span class="count">{last && taskText(samples)}</span>
        </h2>
        <Chart
          timesMs={timesMs}
          spanMs={SPAN_MS}
          leastTop={5}
          steps={TASK_STEPS}
          valueText={(value) => String(Number(value.toFixed(1)))}
          lines={[
            line("running", "--accent", ({ tasks }) => tasks.running),
            line("queued", "--warning", ({ tasks }) => tasks.queued, true),
            line("ended per minute", "--online", (sample) => perMinute(sample, "ended", samples)),
            line("failed per minute", "--unavailable", (sample) => perMinute(sample, "failed", samples), true),
          ]}
        />
      </section>
    </div>
  );
}

function perSecond(bytes: number): string {
  return `${sizeText(Math.round(bytes))}/s`;
}

/** Returns a count of a sample per minute of the time since the sample before; null for the first sample. */
function perMinute(
  sample: ActivitySample,
  count: "ended" | "failed",
  samples: readonly ActivitySample[],
): number | null {
  const before = samples[samples.indexOf(sample) - 1];
  return before === undefined ? null : (sample.tasks[count] * MS_PER_MINUTE) / Math.max(1, sample.atMs - before.atMs);
}

function uncountedText({ uncountedDisks }: NonNullable<ActivitySample["io"]>): string {
  if (uncountedDisks === 0) return "";
  return `, without ${uncountedDisks} ${uncountedDisks === 1 ? "disk" : "disks"} of which nobody counts the I/O`;
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
      setSamples((before) => [...before, ...more].filter(({ atMs }) => atMs > lastMs - SPAN_MS));
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
function useChart(): ChartType | undefined {
  const [loaded, setLoaded] = useState<{ readonly Chart: ChartType }>();
  useEffect(() => {
    import("./charts.js").then(
      ({ default: Chart }) => setLoaded({ Chart }),
      () => {},
    );
  }, []);
  return loaded?.Chart;
}
