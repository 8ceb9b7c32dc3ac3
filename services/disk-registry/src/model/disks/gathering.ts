import type { FreeSpace } from "../store/free-space.js";
import type { Space } from "../store/slices.js";
import { type Candidates, type FreeDevices, largestDevices, totalBytes } from "./candidates.js";

/** Maximum hosts read, or passed over, in search of a better one. Bounds the work in a large fleet. */
export const MAX_HOSTS_READ = 512;

/** Devices in the order in which a disk takes them. `minBytes` never falls from one call to the next. */
interface Source {
  /** Takes the smallest device of `restBytes`, or if there is none a device of at least `minBytes`. */
  take(minBytes: number, restBytes: number, devicesLeft: number): Space | undefined;
}

/** Takes one device after another: of different racks as long as there are any, then of different hosts. */
export function spread(candidates: Candidates, neededBytes: number, maxDevices: number): readonly Space[] | undefined {
  const racks = new Turns(
    candidates.byRack(),
    (hosts) => new Turns(hosts, (space) => new HostSource(candidates, space)),
  );
  return gather(candidates, racks, neededBytes, maxDevices);
}

/** Takes all suitable devices of a host, then those of the next one: each time the host that holds the most. */
export function fill(candidates: Candidates, neededBytes: number, maxDevices: number): readonly Space[] | undefined {
  return gather(candidates, new FullestFirst(candidates), neededBytes, maxDevices);
}

/** Takes one device after another, each so large that the largest remaining devices hold the rest. */
function gather(
  candidates: Candidates,
  source: Source,
  neededBytes: number,
  maxDevices: number,
): readonly Space[] | undefined {
  const largest = largestDevices(candidates, neededBytes, maxDevices);
  if (totalBytes(largest) < neededBytes) return undefined;
  const chosen: Space[] = [];
  for (let restBytes = neededBytes; restBytes > 0; ) {
    const devicesLeft = maxDevices - chosen.length;
    const minBytes = restBytes - totalBytes(largest.slice(0, devicesLeft - 1));
    // The largest device is always large enough.
    const device =
      source.take(minBytes, restBytes, devicesLeft) ?? takeLargest(candidates, largest, minBytes, restBytes);
    const at = largest.indexOf(device);
    if (at >= 0) largest.splice(at, 1);
    chosen.push(device);
    restBytes -= device.sizeBytes;
  }
  return chosen;
}

function takeLargest(candidates: Candidates, [first]: readonly Space[], minBytes: number, restBytes: number): Space {
  const { hostId } = first as Space;
  return candidates.freeDevicesOf(hostId).take(minBytes, restBytes) as Space;
}

/** A source that says how often its next device's host was used; undefined when it has no device of that size. */
interface CountedSource extends Source {
  usesOfNext(minBytes: number): number | undefined;
}

class HostSource implements CountedSource {
  constructor(
    private readonly candidates: Candidates,
    private readonly space: FreeSpace,
  ) {}

  usesOfNext(minBytes: number): number | undefined {
    if (this.space.largestBytes < minBytes) return undefined;
    const [largest] = this.#devices.left;
    return largest === undefined || largest.sizeBytes < minBytes ? undefined : 0;
  }

  take(minBytes: number, restBytes: number): Space | undefined {
    return this.#devices.take(minBytes, restBytes);
  }

  get #devices(): FreeDevices {
    return this.candidates.freeDevicesOf(this.space.hostId);
  }
}

interface Used {
  readonly source: CountedSource;
  uses: number;
}

/** Takes from the least used source. A source without a suitable device is dropped, because it never has one again. */
class Turns<T> implements CountedSource {
  readonly #items: Iterator<T>;
  /** The next source that was not used yet, if it is known. */
  #unused: Used | undefined;
  #used: Used[] = [];

  constructor(
    items: Iterable<T>,
    private readonly sourceOf: (item: T) => CountedSource,
  ) {
    this.#items = items[Symbol.iterator]();
  }

  usesOfNext(minBytes: number): number | undefined {
    return this.#next(minBytes)?.uses;
  }

  take(minBytes: number, restBytes: number, devicesLeft: number): Space | undefined {
    const next = this.#next(minBytes);
    if (next === undefined) return undefined;
    if (next === this.#unused) {
      this.#used.push(next);
      this.#unused = undefined;
    }
    next.uses++;
    return next.source.take(minBytes, restBytes, devicesLeft);
  }

  #next(minBytes: number): Used | undefined {
    for (this.#unused ??= this.#newSource(); this.#unused !== undefined; this.#unused = this.#newSource())
      if (this.#unused.source.usesOfNext(minBytes) !== undefined) return this.#unused;
    const suitable = this.#used.flatMap((used) => {
      const usesOfNext = used.source.usesOfNext(minBytes);
      return usesOfNext === undefined ? [] : { used, usesOfNext };
    });
    this.#used = suitable.map(({ used }) => used);
    let [best] = suitable;
    for (const each of suitable) {
      const more = each.used.uses - (best?.used.uses ?? 0);
      if (more < 0 || (more === 0 && each.usesOfNext < (best?.usesOfNext ?? 0))) best = each;
    }
    return best?.used;
  }

  #newSource(): Used | undefined {
    const { done, value } = this.#items.next();
    return done ? undefined : { source: this.sourceOf(value), uses: 0 };
  }
}

class FullestFirst implements Source {
  readonly #spaces: Iterator<FreeSpace>;
  /** Hosts that were read and not used, the one with the most free bytes first; before them the near host. */
  #waiting: FreeSpace[];
  #current: FreeDevices | undefined;

  constructor(private readonly candidates: Candidates) {
    const { near } = candidates;
    this.#waiting = near === undefined ? [] : [near];
    this.#spaces = withoutHost(candidates.byTotal(), near);
  }

  take(minBytes: number, restBytes: number, devicesLeft: number): Space | undefined {
    const device = this.#current?.take(minBytes, restBytes);
    if (device !== undefined) return device;
    this.#current = this.#fullest(minBytes, devicesLeft);
    return this.#current?.take(minBytes, restBytes);
  }

  #fullest(minBytes: number, devicesLeft: number): FreeDevices | undefined {
    this.#waiting = this.#waiting.filter(({ largestBytes }) => largestBytes >= minBytes);
    let best: { readonly space: FreeSpace; readonly devices: FreeDevices; readonly bytes: number } | undefined;
    for (let i = 0; i < MAX_HOSTS_READ; i++) {
      const space = this.#waiting[i] ?? this.#waitFor(minBytes);
      if (space === undefined || (best !== undefined && space.totalBytes <= best.bytes)) break;
      const devices = this.candidates.freeDevicesOf(space.hostId);
      const bytes = devices.largestBytes(devicesLeft);
      if (best === undefined || bytes > best.bytes) best = { space, devices, bytes };
    }
    this.#waiting = this.#waiting.filter((space) => space !== best?.space);
    return best?.devices;
  }

  /** Adds a host to those that wait. */
  #waitFor(minBytes: number): FreeSpace | undefined {
    for (let i = 0; i < MAX_HOSTS_READ; i++) {
      const { done, value } = this.#spaces.next();
      if (done) return undefined;
      if (value.largestBytes < minBytes) continue;
      this.#waiting.push(value);
      return value;
    }
    return undefined;
  }
}

function* withoutHost(spaces: Iterable<FreeSpace>, excluded: FreeSpace | undefined): Generator<FreeSpace> {
  for (const space of spaces) if (space.hostId !== excluded?.hostId) yield space;
}
