export * from "./outsider.js";
