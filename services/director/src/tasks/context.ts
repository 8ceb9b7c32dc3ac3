import type { Changes, Clock } from "@diskmesh/service";
import type { Events } from "../audit/events.js";
import type { DirectorConfig } from "../config/config.js";
import type { DirectorLimits } from "../config/limits.js";
import type { DirectorTablet } from "../store/stored-schema.js";
import type { EndedTasks } from "./ended-tasks.js";
import type { TaskLog } from "./task-log.js";
import type { Tasks } from "./tasks.js";

export interface TaskContext {
  readonly config: DirectorConfig;
  readonly limits: DirectorLimits;
  readonly tablet: DirectorTablet;
  readonly clock: Clock;
  readonly tasks: Tasks;
  readonly endedTasks: EndedTasks;
  readonly taskLog: TaskLog;
  readonly changes: Changes<number>;
  readonly events: Events;
}
