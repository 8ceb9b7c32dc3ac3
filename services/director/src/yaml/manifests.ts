import { type Manifest, type ManifestLimits, parseManifest } from "./manifest.js";

const MAX_REMEMBERED = 32;

/** Reads manifests, each once: a deploy looks at its own before every step. */
export class Manifests {
  readonly #read = new Map<string, Manifest>();

  constructor(private readonly limits: ManifestLimits) {}

  read(text: string): Manifest {
    const known = this.#read.get(text);
    if (known !== undefined) return known;
    const manifest = parseManifest(text, this.limits);
    const [oldest] = this.#read.keys();
    if (this.#read.size >= MAX_REMEMBERED && oldest !== undefined) this.#read.delete(oldest);
    this.#read.set(text, manifest);
    return manifest;
  }
}
