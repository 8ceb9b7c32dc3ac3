import type { Clock } from "@diskmesh/service";
import type { DirectorLimits } from "../config/limits.js";
import type { ReadersOfTexts } from "../configs/readers-of-texts.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { CpiCalls } from "./cpi-calls.js";

export interface CpiJobContext {
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly configs: ReadersOfTexts;
  readonly cpi: CpiCalls;
}
