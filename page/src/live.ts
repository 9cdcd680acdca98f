import "./app.css";
import { mount } from "svelte";
import Live from "./Live.svelte";

const target = document.getElementById("page");
if (!target) throw new Error("the page has no place");
mount(Live, { target });
