import numpy as np, sys
from scipy.stats import t as tl, norm
rng=np.random.default_rng(5)
def run(draw,gam,mu,alpha,budget):
    z=norm.isf(alpha/2)
    # guard
    T=30
    while (0.82*z**3/T)**2/2+z**4*gam**2*0.375/T>0.1: T+=1
    reps=int(budget//T); hits=[0,0,0]; done=0
    lim=tl.isf(alpha/2,T-1)
    while done<reps:
        b=min(reps-done,4_000_000//T)
        x=draw((b,T)); m=x.mean(1); c=x-m[:,None]; v=(c*c).mean(1); g=(c**3).mean(1)/v**1.5
        s=np.sqrt(v*T/(T-1)); t=np.sqrt(T)*(m-mu)/s
        h=t+g/np.sqrt(T)*(t*t/3+1/6)+g*g*t**3/(27*T)
        # data-driven guard too
        ok=((0.82*z**3/T)**2/2+z**4*g**2*0.375/T)<=0.30
        hits[0]+=(h>lim).sum(); hits[1]+=(h<-lim).sum(); hits[2]+=(np.abs(t)>lim).sum(); done+=b
    return T,reps,[round(float(q/(reps*alpha/2)),3) for q in hits[:2]],round(float((hits[0]+hits[1])/(reps*alpha)),3),round(float(hits[2]/(reps*alpha)),3)
for alpha in (0.05,0.01,1e-3,1e-4):
    for name,draw,gam,mu in (("normal",lambda s:rng.standard_normal(s),0,0),("gamma16",lambda s:rng.standard_gamma(16,s),.5,16),("gamma4",lambda s:rng.standard_gamma(4,s),1,4),("exp",lambda s:rng.standard_exponential(s),2,1)):
        b={0.05:2e7,0.01:1e8,1e-3:2e8,1e-4:6e8}[alpha]
        print(alpha,name,*run(draw,gam,mu,alpha,b),flush=True)
