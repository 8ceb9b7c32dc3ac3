import type { Logger } from "@diskmesh/domain";
import type { Clock } from "@diskmesh/service";
import type { ClearOptions } from "../files/file-bytes.js";
import { isSameDevice, placeOf } from "../model/exports.js";
import type { ExportDevice, ExportExtent } from "../model/memory.js";
import type { DiskPart } from "../parts/disk-part.js";
import { Mirror, type Mirrored, type MirrorLimits, type MirrorStatus } from "./mirror.js";

export interface MovablePartOptions {
  readonly diskId: string;
  readonly open: (device: ExportDevice) => DiskPart;
  readonly limits: MirrorLimits;
  readonly clock: Clock;
  readonly log: Logger;
}

/** Target of a move, of which both copies have the first bytes alike, durably. */
export type CopiedTarget = ExportDevice & { readonly copiedBytes: number };

/** Part of a disk that can move to another device while it is read and written. */
export class MovablePart implements DiskPart {
  readonly #options: MovablePartOptions;
  /** Changes of bytes without an answer, of the part from which this one was split, too. */
  readonly #changes: Set<Promise<unknown>>;
  #extent: ExportExtent;
  /** Device of the extent. */
  #part: DiskPart;
  #mirror: Mirror | undefined;

  /** `former`: changes of the part from which this one was split. */
  constructor(extent: ExportExtent, options: MovablePartOptions, former?: Iterable<Promise<unknown>>) {
    this.#options = options;
    this.#changes = new Set(former);
    this.#extent = extent;
    this.#part = options.open(extent);
    this.#mirror = this.#begin(extent, former === undefined ? extent.target?.copiedBytes : 0);
  }

  get sizeBytes(): number {
    return this.#extent.sizeBytes;
  }

  /** Follows a later revision, in which the extent is one or more. Returns the part of each. */
  changeInto(extents: readonly ExportExtent[]): readonly MovablePart[] {
    const [first, ...others] = extents;
    if (first === undefined) return [];
    const { target: _, ...whole } = first;
    this.#change(others.length === 0 ? first : whole);
    if (others.length === 0) return [this];
    const parts = extents.map((extent) => new MovablePart(extent, this.#options, this.#changes));
    // Closed last, so that the run stays open: requests of this part without an answer go on.
    this.#part.close();
    return parts;
  }

  /** Begins to mirror, or goes on with the device that counts. */
  #change(extent: ExportExtent): void {
    const former = this.#extent;
    this.#extent = extent;
    const isSource = isSameDevice(former, extent);
    if (isSource && isSameDevice(former.target, extent.target))
      this.#mirror?.setRate(extent.target?.bytesPerSecond ?? 0);
    else {
      if (this.#mirror !== undefined) this.#part = this.#mirror.decide(isSource ? "source" : "target");
      this.#mirror = this.#begin(extent);
    }
  }

  /** `startBytes`: bytes that nothing has changed since both copies had them alike. */
  #begin({ deviceId, sizeBytes, target }: ExportExtent, startBytes = 0): Mirror | undefined {
    if (target === undefined) return undefined;
    const { diskId, open, ...common } = this.#options;
    return new Mirror({
      ...common,
      source: this.#part,
      target: open(target),
      sizeBytes,
      startBytes,
      bytesPerSecond: target.bytesPerSecond,
      about: { diskId, deviceId, targetId: target.deviceId },
      quiet: () => Promise.allSettled([...this.#changes]),
    });
  }

  /** Returns how far the mirror to the target is; undefined when there is no such mirror. Its answer EQUAL binds. */
  askMirror({ source, target }: Mirrored, bytesPerSecond: number): MirrorStatus | undefined {
    const { target: now, ...extent } = this.#extent;
    if (now === undefined || placeOf(extent) !== placeOf(source) || placeOf(now) !== placeOf(target)) return undefined;
    this.#mirror?.setRate(bytesPerSecond);
    return this.#mirror?.ask();
  }

  /** Ends the changes of a part that moves. Returns its target with the bytes that both copies have alike. */
  async seal(): Promise<readonly CopiedTarget[]> {
    const { target } = this.#extent;
    const copiedBytes = (await this.#mirror?.seal()) ?? 0;
    return target !== undefined && copiedBytes > 0 ? [{ ...target, copiedBytes }] : [];
  }

  read(offsetBytes: number, lengthBytes: number): Promise<Uint8Array> {
    return this.#now.read(offsetBytes, lengthBytes);
  }

  write(offsetBytes: number, data: Uint8Array, fua: boolean): Promise<void> {
    return this.#noted(this.#now.write(offsetBytes, data, fua));
  }

  clear(offsetBytes: number, lengthBytes: number, options: ClearOptions): Promise<void> {
    return this.#noted(this.#now.clear(offsetBytes, lengthBytes, options));
  }

  flush(): Promise<void> {
    return this.#now.flush();
  }

  /** Fails the requests that wait for a decision, so that they do not hold up the end of the export. */
  release(): void {
    this.#mirror?.release();
  }

  close(): void {
    this.#now.close();
  }

  get #now(): DiskPart {
    return this.#mirror ?? this.#part;
  }

  #noted(change: Promise<void>): Promise<void> {
    const noted: Promise<void> = change.finally(() => this.#changes.delete(noted));
    this.#changes.add(noted);
    return noted;
  }
}
