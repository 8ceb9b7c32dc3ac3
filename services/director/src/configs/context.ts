import type { TaskContext } from "../tasks/context.js";
import type { ReadersOfTexts } from "./readers-of-texts.js";

/** Context of the handlers of configs and manifests. */
export interface ConfigContext extends TaskContext {
  readonly configs: ReadersOfTexts;
}
