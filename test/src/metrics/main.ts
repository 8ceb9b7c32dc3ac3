import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryFolder } from "../repository-folder.js";
import { metricsPage } from "./page.js";

mkdirSync(join(repositoryFolder, "docs"), { recursive: true });
writeFileSync(join(repositoryFolder, "docs/reference/metrics.md"), metricsPage());
