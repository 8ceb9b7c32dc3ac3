import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryFolder } from "../repository-folder.js";
import { exampleOf } from "./examples.js";
import { configurationPage } from "./page.js";
import { CONFIGS } from "./services.js";

const examples = join(repositoryFolder, "deploy/examples");
mkdirSync(examples, { recursive: true });
for (const service of CONFIGS.keys()) writeFileSync(join(examples, `${service}.yaml`), exampleOf(service));
writeFileSync(join(repositoryFolder, "docs/reference/configuration.md"), configurationPage());
