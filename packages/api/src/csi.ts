export * from "./generated/csi/v1/csi.js";
