import { useEffect, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import { useDark } from "./hooks.js";

const HEIGHT = 150;
const AXIS_FONT = "12px system-ui, sans-serif";
/** Width of the labels of the y axis, and height of those of the x axis, in pixels. */
const LABELS_WIDTH = 72;
const LABELS_HEIGHT = 28;
const MS_PER_SECOND = 1_000;

export interface Line {
  readonly label: string;
  /** Custom property of the line's colour. */
  readonly colour: string;
  readonly isDashed?: true;
  readonly values: readonly (number | null)[];
}

interface ChartProps {
  /** Title for screen readers. */
  readonly label: string;
  readonly timesMs: readonly number[];
  readonly lines: readonly Line[];
  readonly valueText: (value: number) => string;
  /** Shown span of time, up to now. */
  readonly spanMs: number;
  /** Minimum of the highest value of the y axis. */
  readonly leastTop: number;
  /** Possible distances of the labels of the y axis. */
  readonly steps: readonly number[];
}

/** Distances, in samples, by which keys move the cursor. */
const KEYS: Readonly<Record<string, number>> = {
  ...{ ArrowLeft: -1, ArrowRight: 1, PageUp: 10, PageDown: -10 },
  ...{ Home: Number.NEGATIVE_INFINITY, End: Number.POSITIVE_INFINITY },
};

/**
 * Shows lines over time, and the values at the pointer, or at the cursor that keys move. Names and number of the lines
 * must not change.
 */
export default function Chart({ label, timesMs, lines, valueText, spanMs, leastTop, steps }: ChartProps) {
  const [at, setAt] = useState<number>();
  const span = useRef(spanMs);
  span.current = spanMs;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const isDark = useDark();
  const data = [
    timesMs.map((timeMs) => timeMs / MS_PER_SECOND),
    ...lines.map(({ values }) => [...values]),
  ] as uPlot.AlignedData;
  useEffect(() => {
    const parent = box.current;
    if (parent === null) return;
    const made = new uPlot(optionsOf(parent, span, { lines, valueText, leastTop, steps }), data, parent);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: parent.clientWidth, height: HEIGHT }));
    observer.observe(parent);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, []);
  useEffect(() => plot.current?.setData(data), [timesMs, isDark, spanMs]);
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = KEYS[event.key];
    if (step === undefined || plot.current === undefined) return;
    event.preventDefault();
    const last = timesMs.length - 1;
    const first = timesMs.findIndex((timeMs) => timeMs >= Date.now() - spanMs);
    const next = Math.max(first, Math.min(last, (at ?? last + 1) + step));
    setAt(next);
    plot.current.setCursor({ left: plot.current.valToPos((timesMs[next] ?? 0) / MS_PER_SECOND, "x"), top: 0 });
  };
  const read = (line: Line): string => {
    const value = at === undefined ? undefined : line.values[at];
    return value === null || value === undefined ? `${line.label} unknown` : `${line.label} ${valueText(value)}`;
  };
  const text = at === undefined ? "" : `${hourText(timesMs[at] ?? 0)}: ${lines.map(read).join(", ")}`;
  return (
    <div
      class="chart"
      ref={box}
      role="slider"
      tabIndex={0}
      aria-label={`${label}. Arrow keys move in time.`}
      aria-valuemin={0}
      aria-valuemax={Math.max(0, timesMs.length - 1)}
      aria-valuenow={at ?? Math.max(0, timesMs.length - 1)}
      aria-valuetext={text || "no time is chosen"}
      onKeyDown={onKeyDown}
      onBlur={() => {
        setAt(undefined);
        plot.current?.setCursor({ left: -10, top: -10 });
      }}
    />
  );
}

function optionsOf(
  parent: HTMLElement,
  span: { readonly current: number },
  { lines, valueText, leastTop, steps }: Pick<ChartProps, "lines" | "valueText" | "leastTop" | "steps">,
): uPlot.Options {
  const shown = (value: number | null): string => (value === null ? "" : valueText(value));
  const axis = { stroke: () => colourOf(parent, "--soft"), font: AXIS_FONT, ticks: { show: false } };
  const grid = { stroke: () => colourOf(parent, "--line"), width: 1 };
  return {
    width: parent.clientWidth,
    height: HEIGHT,
    cursor: { y: false, drag: { x: false, y: false } },
    legend: { markers: { dash: (_plot, index) => (lines[index - 1]?.isDashed ? "dashed" : "solid") } },
    scales: {
      x: { range: () => [(Date.now() - span.current) / MS_PER_SECOND, Date.now() / MS_PER_SECOND] },
      y: { range: (_plot, _min, max) => [0, Math.max(leastTop, max * 1.1)] },
    },
    axes: [
      {
        ...axis,
        grid,
        size: LABELS_HEIGHT,
        values: (_plot, times) => times.map((time) => hourText(time * MS_PER_SECOND)),
      },
      { ...axis, grid, size: LABELS_WIDTH, incrs: [...steps], values: (_plot, values) => values.map(shown) },
    ],
    series: [
      { label: "at", value: (_plot, time: number | null) => (time === null ? "" : hourText(time * MS_PER_SECOND)) },
      ...lines.map(({ label, colour, isDashed }) => ({
        label,
        stroke: () => colourOf(parent, colour),
        width: 1.5,
        points: { show: false },
        value: (_plot: uPlot, value: number | null) => shown(value),
        ...(isDashed && { dash: [4, 3] }),
      })),
    ],
  };
}

/** Returns the colour of a custom property. `light-dark()` is resolved in the property of an element only. */
function colourOf(element: HTMLElement, name: string): string {
  element.style.borderColor = `var(${name})`;
  return getComputedStyle(element).borderTopColor;
}

function hourText(timeMs: number): string {
  return new Date(timeMs).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });
}
