import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { addressOf, useDark } from "./hooks.js";
import { arrange, type Cell, hostAt, moved } from "./map-layout.js";
import { paint } from "./map-paint.js";
import { type HostRow, hostStateOf } from "./rows.js";
import { countText } from "./text.js";

interface FleetMapProps {
  readonly hosts: readonly (readonly [name: string, row: HostRow])[];
  readonly selected: string | undefined;
}

const STEPS: Readonly<Record<string, readonly [x: number, y: number]>> = {
  ArrowLeft: [-1, 0],
  ArrowRight: [1, 0],
  ArrowUp: [0, -1],
  ArrowDown: [0, 1],
};

/** Shows every host as a cell with its devices on one canvas, so that ten thousand hosts cost no more than ten. */
export function FleetMap({ hosts, selected }: FleetMapProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const [cursor, setCursor] = useState<string | undefined>();
  const layout = useMemo(() => arrange(hosts, width), [hosts, width]);
  const isDark = useDark();
  useEffect(() => {
    const parent = canvas.current?.parentElement;
    if (!parent) return;
    const observer = new ResizeObserver(() => setWidth(Math.floor(parent.clientWidth)));
    observer.observe(parent);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (canvas.current && width > 0) paint(canvas.current, layout, { selected, cursor });
  }, [hosts, width, selected, cursor, isDark]);
  const pointed = (event: MouseEvent): Cell | undefined => hostAt(layout, event.offsetX, event.offsetY);
  const shown = layout.cells.find(({ name }) => name === cursor);
  const open = (name: string | undefined): void => {
    if (name !== undefined) location.hash = addressOf({ kind: "host", name });
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const step = STEPS[event.key];
    if (step !== undefined) setCursor(moved(layout, cursor, ...step));
    else if (event.key === "Enter") open(cursor);
    else return;
    event.preventDefault();
  };
  return (
    <div class="map">
      <canvas
        ref={canvas}
        tabIndex={0}
        role="img"
        aria-label={`Map of ${countText(hosts.length, "host")}. Arrow keys move from host to host, Enter opens one.`}
        aria-describedby="map-cursor"
        style={{ width: `${width}px`, height: `${layout.height}px` }}
        onMouseMove={(event) => setCursor(pointed(event)?.name)}
        onMouseLeave={() => setCursor(undefined)}
        onClick={(event) => open(pointed(event)?.name)}
        onKeyDown={onKeyDown}
      />
      <output id="map-cursor" aria-live="polite">
        {shown === undefined ? "" : describe(shown)}
      </output>
    </div>
  );
}

function describe({ name, row }: Cell): string {
  const place = [row.az, row.rack].filter(Boolean).join(" ");
  return [`${name}, ${hostStateOf(row)}`, place, countText(row.devices.length, "device"), row.trouble ?? ""]
    .filter(Boolean)
    .join(" · ");
}
