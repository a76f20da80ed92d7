import{a as r}from"./index-dmT3hU0G.js";function i(e){return r("p",{children:"MemoryView"})}export{i as MemoryView};
