import { createHash } from "node:crypto";
import { Random } from "../random.js";
import { keptSeedsOf } from "./seeds.js";
import type { Surface } from "./surface.js";

/**
 * Returns the input of a surface with this index in the run of a seed; it does not depend on other inputs. Negative
 * indexes select kept inputs (see seeds.ts).
 */
export function inputAt(surface: Pick<Surface, "name" | "next">, seed: number, index: number): Buffer {
  if (index < 0) {
    const kept = keptSeedsOf(surface.name)[-index - 1];
    if (kept === undefined) throw new Error(`${surface.name} has no kept input ${index}`);
    return kept.input();
  }
  const digest = createHash("sha256").update(`${seed}/${surface.name}/${index}`).digest();
  return surface.next(new Random(digest.readUIntBE(0, 6)));
}
