import type { CpiConfigs } from "./cpi-configs.js";
import type { CpiLog } from "./cpi-log.js";
import type { Fence } from "./fence.js";
import type { CpiMaker } from "./make-cpis.js";

export interface DispatcherContext {
  readonly configs: CpiConfigs;
  readonly maker: Pick<CpiMaker, "makeSet">;
  readonly fence: Fence;
  readonly log: CpiLog;
}
