import { CarrierServiceDefinition } from "@diskmesh/api/rpc";
import { type MethodDefinition, methodsOf } from "./definition.js";

/** The method that carries calls of other methods. */
export const CARRY = Object.fromEntries(methodsOf(CarrierServiceDefinition)).carry as MethodDefinition;

/** What a message that carries a call holds beside its request or answer, at most: path, headers, or a failure. */
export const CARRIER_MARGIN_BYTES = 16_384;
