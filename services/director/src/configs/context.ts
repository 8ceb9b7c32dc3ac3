import type { TaskContext } from "../tasks/context.js";
import type { ReadersOfTexts } from "./readers-of-texts.js";

export interface ConfigContext extends TaskContext {
  readonly configs: ReadersOfTexts;
}
