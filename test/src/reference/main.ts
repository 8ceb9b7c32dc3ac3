import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { repositoryFolder } from "../repository-folder.js";
import { referencePages } from "./pages.js";

const folder = join(repositoryFolder, "docs/reference");
rmSync(join(folder, "grpc"), { recursive: true, force: true });
mkdirSync(join(folder, "grpc"));
for (const [name, page] of await referencePages()) writeFileSync(join(folder, name), page);
